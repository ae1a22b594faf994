"""What a translation depends on: occlusion of source words, ablation of heads."""
