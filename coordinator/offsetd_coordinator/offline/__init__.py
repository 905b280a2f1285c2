"""Work on a data folder that no server has open."""
