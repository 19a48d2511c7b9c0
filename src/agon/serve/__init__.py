"""The cascade as a service: any OpenAI client asks a trained pair, and both stages stream.

Start with `stages` (what each stage is asked, what is made of what it wrote), then `cascade` (both
stages as they are sampled), `app` (HTTP around it). `driver` and `replicas` are what samples.
"""
