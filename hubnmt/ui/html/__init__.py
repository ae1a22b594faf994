"""Values as HTML; everything that comes from outside is escaped."""
