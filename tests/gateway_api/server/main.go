// Runs an API server of Kubernetes with its own etcd, both in one process, for tests. The first argument is the working folder, which
// has etcd's data; the others are flags of kube-apiserver.
package main

import (
	"fmt"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	endpoint, err := startEtcd(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
	command := app.NewAPIServerCommand()
	command.SetArgs(append(os.Args[2:], "--etcd-servers="+endpoint))
	os.Exit(cli.Run(command))
}

// Starts etcd on a Unix socket in a folder, and makes that the working folder.
func startEtcd(folder string) (string, error) {
	if err := os.Chdir(folder); err != nil {
		return "", err
	}
	config := embed.NewConfig()
	config.Dir = "etcd"
	config.LogLevel = "error"
	// A socket's name has the form of an address; it is a file in the working folder.
	socket := url.URL{Scheme: "unix", Host: "etcd:0"}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{socket}, []url.URL{socket}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	config.ListenPeerUrls = []url.URL{peer}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return "", err
	}
	<-server.Server.ReadyNotify()
	return socket.String(), nil
}
