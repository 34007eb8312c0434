"""What people run: the command line, reports and the studio."""
