"""The functions of all nightbook commands, in one module for each command or group.

`assets.console.command` imports a module only if its command is typed.
"""
