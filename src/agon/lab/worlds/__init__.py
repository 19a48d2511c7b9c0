"""Worlds: small tasks of which it is known by construction whether exchange and competition help.

An instrument that finds nothing is only believed if it finds what is there, and one that finds something only if it
finds nothing where nothing is. Each world has a task, the options of its trainings, and claims that follow from how it
was built (`world.py`); `play` makes one of its runs, `verdict` says what the lab makes of them. None needs a GPU.

    from agon.lab.worlds.catalogue import WORLDS
    from agon.lab.worlds.play import play
    play(WORLDS["relay"], "coop", seed=0, folder=Path("runs/relay-coop-0"))

The tasks also work by name, as in `agon train --model src/agon/lab/worlds/bases/trap --task
agon.lab.worlds.copying_trap:copying_trap,p=0.6,q=0.5,kinds=20`, with the options of `World.training`.
"""
