"""The lab: experiments of many runs."""
