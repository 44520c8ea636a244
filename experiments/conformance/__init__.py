"""Checks that every method, attack, data set, model and encoder passes, ours and yours.

    python -m experiments.conformance 'methods=[my_package.my_module:MyTopology]' data=my_package:load

runs them from the command line; each module has one function that does the same from a test, such as
`experiments.conformance.methods.check_method("my_package.my_module:MyTopology")`.
"""
