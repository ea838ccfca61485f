"""What a broker shows of itself, a file for each subject; what each metric means stands in the catalogue."""
