package main

import (
	"syscall"
	"unsafe"
)

const clockMonotonic = 1

// monotonic returns CLOCK_MONOTONIC in nanoseconds, the clock of Python's time.monotonic_ns(), so
// that processes in both languages can compare times. Go's own monotonic clock cannot be read.
func monotonic() int64 {
	var now syscall.Timespec
	_, _, failed := syscall.Syscall(
		syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	if failed != 0 {
		panic(failed)
	}
	return now.Nano()
}

// cpuSeconds returns the user and system time of this process.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}
