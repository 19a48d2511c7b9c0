"""Sweeps: many runs that differ in method, seed or an option, on this machine, on Slurm or on Ray.

`asked` reads what is wanted, `cells` expands it, `parity` compares the budgets, `stages` writes the commands of a cell,
`cell_run` runs them; `local`, `slurm` and `on_ray` decide where, `progress` and `watching` say how far it is.
"""
