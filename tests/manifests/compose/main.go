// Loads Compose files with the loader of `docker compose config`: schema, variables, references between services, networks and
// volumes. Each argument is a file; a finding is a line.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	code := 0
	for _, path := range os.Args[1:] {
		options, err := cli.NewProjectOptions([]string{path}, cli.WithProfiles([]string{"*"}))
		if err == nil {
			_, err = options.LoadProject(context.Background())
		}
		if err != nil {
			fmt.Printf("%s: %v\n", path, err)
			code = 1
		}
	}
	os.Exit(code)
}
