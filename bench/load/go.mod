module hookfast.dev/bench/load

go 1.22
