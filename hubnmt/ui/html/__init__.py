"""HTML rendering; all external text is escaped."""
