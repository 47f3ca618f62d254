package schema

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// An API server that knows SealPolicy.
type cluster struct {
	config *rest.Config
	client client.Client
}

func startCluster(t *testing.T) *cluster {
	log.SetLogger(logr.Discard())
	folder := t.TempDir()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	pemKey := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	token := rand.Text()
	write(t, filepath.Join(folder, "accounts.key"), pemKey)
	write(t, filepath.Join(folder, "tokens.csv"), []byte(token+",test,test,system:masters\n"))
	port := freePort(t)
	start(t, filepath.Join(folder, "log"), os.Getenv("API_SERVER"), folder,
		"--cert-dir=certs", "--bind-address=127.0.0.1", "--secure-port="+port,
		"--service-account-issuer=https://test.invalid", "--service-account-key-file=accounts.key",
		"--service-account-signing-key-file=accounts.key", "--token-auth-file=tokens.csv",
		"--service-cluster-ip-range=127.1.0.0/16", "--disable-admission-plugins=ServiceAccount")
	config := &rest.Config{Host: "https://127.0.0.1:" + port, BearerToken: token, QPS: 1000, Burst: 1000}
	config.TLSClientConfig.CAFile = filepath.Join(folder, "certs/apiserver.crt")
	c := &cluster{config: config}
	eventually(t, "the API server", func() error {
		made, err := client.New(config, client.Options{})
		if err != nil {
			return err
		}
		c.client = made
		return nil
	})
	text, err := os.ReadFile(os.Getenv("SEAL_POLICY_CRD"))
	require.NoError(t, err)
	c.apply(t, manifest(t, text)...)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "sealway.dev", Version: "v1alpha1", Kind: "SealPolicyList"})
	eventually(t, "SealPolicy", func() error { return c.client.List(t.Context(), list) })
	return c
}

// Creates objects, as soon as the API server knows their kind.
func (c *cluster) apply(t *testing.T, objects ...*unstructured.Unstructured) {
	for _, object := range objects {
		eventually(t, object.GetName(), func() error {
			err := c.client.Create(t.Context(), object)
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
	}
}

// Starts a process that ends with the test.
func start(t *testing.T, output, program string, args ...string) *exec.Cmd {
	file, err := os.Create(output)
	require.NoError(t, err)
	command := exec.Command(program, args...)
	command.Stdout, command.Stderr = file, file
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(output)
			lines := strings.Split(string(text), "\n")
			fmt.Printf("%s:\n%s\n", program, strings.Join(lines[max(0, len(lines)-30):], "\n"))
		}
	})
	return command
}

func eventually(t *testing.T, what string, try func() error) {
	err := errors.New("not tried")
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	require.NoError(t, err, what)
}

func freePort(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	return port
}

func write(t *testing.T, path string, content []byte) {
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, content, 0o600))
}
