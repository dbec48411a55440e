"""The verbs of the command line, a module each; heavy imports stay inside the functions that need them."""
