"""Demo data to try the gateway with: always the same for the same seed.

    world.py          accounts, tokens, and the data of all subjects
    owners.py         the shops and users, with their grants
    world_file.py     the file with the tokens of a world, and what to try with them
    sandbox.py        the small copy of the world that test tokens see, in a folder of its own
    sandbox_guide.py  what the sandbox has, as a list for people and programs

It is loaded into the ordinary tables, like any other data. fakes/ has programs to try it with.
"""
