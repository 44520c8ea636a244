"""The systems of other papers, each a file, or a folder where only it uses what lies there."""
