"""`offsetd doctor`: what is wrong with a server or a folder, and what to do."""
