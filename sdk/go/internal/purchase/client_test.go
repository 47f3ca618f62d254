package purchase

import (
	"reflect"
	"strings"
	"testing"
)

var variables = []string{"SESSION_URL", "SERVER_URL", "SEALWAY_PINS", "SEALWAY_WIRE", "SEALWAY_CLIENT_ID", "BENCHMARK_CONCURRENCY"}

func TestAnEmptyVariableIsAsIfItWereNotSet(t *testing.T) {
	for _, name := range variables {
		t.Setenv(name, "")
	}
	env, err := ReadEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	want := &Environment{SessionURL: "http://localhost:3000", ServerURL: "http://localhost:3000", ClientID: "sealway-go", Wire: 3, Concurrency: 1}
	if !reflect.DeepEqual(env, want) {
		t.Fatalf("%+v", env)
	}
	t.Setenv("SESSION_URL", "http://a.example")
	if env, err := ReadEnvironment(); err != nil || env.ServerURL != "http://a.example" {
		t.Fatal(env, err)
	}
}

func TestAVariableThatIsOutOfItsBoundsIsNamed(t *testing.T) {
	for _, name := range variables {
		t.Setenv(name, "")
	}
	for _, c := range []struct {
		name, value string
		good        bool
	}{{"BENCHMARK_CONCURRENCY", "1", true}, {"BENCHMARK_CONCURRENCY", "1000", true}, {"BENCHMARK_CONCURRENCY", "1001", false},
		{"BENCHMARK_CONCURRENCY", "0", false}, {"BENCHMARK_CONCURRENCY", "-1", false}, {"BENCHMARK_CONCURRENCY", "many", false},
		{"SEALWAY_WIRE", "1", true}, {"SEALWAY_WIRE", "4", false}, {"SEALWAY_WIRE", "0", false}, {"SEALWAY_WIRE", "x", false}} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			t.Setenv(c.name, c.value)
			if _, err := ReadEnvironment(); c.good != (err == nil) || !c.good && !strings.Contains(err.Error(), c.name) {
				t.Fatal(err)
			}
		})
	}
}
