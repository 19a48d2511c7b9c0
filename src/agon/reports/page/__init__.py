"""The report of runs as one page: a tree of tables, charts and sentences, written as HTML, Markdown and LaTeX."""
