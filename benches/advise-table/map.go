// A map with the given number of entries, filled, then read in another order.
package main

import (
	"fmt"
	"os"
	"strconv"
)

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	m := make(map[int]int)
	for i := 0; i < n; i++ {
		m[i*7919] = i
	}
	sum := 0
	for j := 0; j < 3*n; j++ {
		sum += m[j*48271%n*7919]
	}
	fmt.Println(sum)
}
