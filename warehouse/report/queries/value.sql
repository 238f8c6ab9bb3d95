$groups
