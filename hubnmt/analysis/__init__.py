"""Analysis of translations: occlusion of source words."""
