// Has an API server of Kubernetes judge policies by the schema of SealPolicy.
package schema

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The rules of the schema of SealPolicy, judged by the API server.
func TestSealPolicies(t *testing.T) {
	cluster := startCluster(t)
	folder := os.Getenv("SEAL_POLICIES")
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	accepted, rejected := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		expected, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		var said string
		objects, err := parse(text)
		require.NoError(t, err)
		if err := cluster.client.Create(t.Context(), objects[0], client.FieldValidation("Strict")); err != nil {
			said = err.Error()
		}
		if expected == "accepted" {
			require.Empty(t, said, file)
			accepted++
		} else {
			require.Contains(t, said, expected, file)
			rejected++
		}
	}
	fmt.Printf("accepted %d, rejected %d\n", accepted, rejected)
}

func manifest(t *testing.T, text []byte) []*unstructured.Unstructured {
	objects, err := parse(text)
	require.NoError(t, err)
	return objects
}

func parse(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); err != nil {
			if err.Error() == "EOF" {
				return objects, nil
			}
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
