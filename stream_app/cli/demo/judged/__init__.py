"""Lists while a demo runs and at its end, beside those with privacy off."""
