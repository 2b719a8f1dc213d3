"""What a log states about its run: settings in every usual form, under canonical names."""
