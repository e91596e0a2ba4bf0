"""Speed: ratios against peers and against the machine's limit, measured in one run."""
