# Print of a lock (the second file) the packages that the first file names, one a line, with their hashes.
NR == FNR { wanted[$1]; next }
/^[a-z0-9]/ { split($1, name, "=="); kept = name[1] in wanted }
kept
