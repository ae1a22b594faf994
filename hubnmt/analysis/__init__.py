"""Analysis of translations: occlusion of source words and ablation of attention heads."""
