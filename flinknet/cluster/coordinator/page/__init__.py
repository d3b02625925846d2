"""The web page that the coordinator serves: its files, and the JSON that is made for it."""
