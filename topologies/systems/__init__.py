"""Systems of other papers, each in a file of its name."""
