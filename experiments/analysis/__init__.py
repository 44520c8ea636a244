"""What records come to: statistics, comparisons and tables; reads run folders and nothing that lives."""
