// Checks rendered manifests as an API server of Kubernetes does on creation: strict decoding, defaults, validation, warnings.
// Holds every pod to the level `restricted` of Pod Security. Each argument is a file of YAML documents; a finding is a line.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	apiservice "k8s.io/kubernetes/pkg/api/service"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	security "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// Rules of the API server for new objects, by kind.
var strategies = map[string]rest.RESTCreateStrategy{
	"ConfigMap":               configmap.Strategy,
	"Deployment":              deployment.Strategy,
	"HorizontalPodAutoscaler": horizontalpodautoscaler.Strategy,
	"Job":                     job.Strategy,
	"NetworkPolicy":           networkpolicy.Strategy,
	"PodDisruptionBudget":     poddisruptionbudget.Strategy,
	"Service":                 service.Strategy,
}

func main() {
	utilruntime.Must(monitoring.AddToScheme(legacyscheme.Scheme))
	code := 0
	for _, path := range os.Args[1:] {
		for _, err := range checkFile(path) {
			fmt.Printf("%s: %v\n", path, err)
			code = 1
		}
	}
	os.Exit(code)
}

func checkFile(path string) []error {
	file, err := os.Open(path)
	if err != nil {
		return []error{err}
	}
	defer file.Close()
	reader := yaml.NewYAMLReader(bufio.NewReader(file))
	var found []error
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			return append(found, err)
		}
		if len(bytes.TrimSpace(document)) > 0 {
			found = append(found, check(document)...)
		}
	}
}

func check(document []byte) []error {
	codecs := serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict)
	object, kind, err := codecs.UniversalDeserializer().Decode(document, nil, nil)
	if err != nil {
		return []error{err}
	}
	// Strictly decoded; its rules are in a schema that only a cluster with the operator has.
	if _, isMonitor := object.(*monitoring.ServiceMonitor); isMonitor {
		return nil
	}
	strategy, known := strategies[kind.Kind]
	if !known {
		return []error{fmt.Errorf("%v: this program has no rules for the kind", kind)}
	}
	legacyscheme.Scheme.Default(object)
	internal, err := legacyscheme.Scheme.ConvertToVersion(object, runtime.InternalGroupVersioner)
	if err != nil {
		return []error{err}
	}
	metadata, err := meta.Accessor(internal)
	if err != nil {
		return []error{err}
	}
	if service, isService := internal.(*core.Service); isService {
		allocate(service)
	}
	metadata.SetNamespace("default")
	rest.FillObjectMetaSystemFields(metadata)
	ctx := request.WithNamespace(context.Background(), "default")
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{APIGroup: kind.Group, APIVersion: kind.Version})
	if err := rest.BeforeCreate(strategy, ctx, internal); err != nil {
		return []error{err}
	}
	var found []error
	for _, warning := range strategy.WarningsOnCreate(ctx, internal) {
		found = append(found, fmt.Errorf("%s %s: warning: %s", kind.Kind, metadata.GetName(), warning))
	}
	if pod := podOf(object); pod != nil {
		for _, err := range unrestricted(pod) {
			found = append(found, fmt.Errorf("%s %s: %w", kind.Kind, metadata.GetName(), err))
		}
	}
	return found
}

// Fills in what the API server allocates before it validates a Service.
func allocate(service *core.Service) {
	if service.Spec.ClusterIP != "" {
		service.Spec.ClusterIPs = []string{service.Spec.ClusterIP}
	}
	if apiservice.NeedsHealthCheck(service) {
		service.Spec.HealthCheckNodePort = 30000
	}
}

func podOf(object runtime.Object) *corev1.PodTemplateSpec {
	switch object := object.(type) {
	case *appsv1.Deployment:
		return &object.Spec.Template
	case *batchv1.Job:
		return &object.Spec.Template
	}
	return nil
}

// Returns what Pod Security's level `restricted` forbids in a pod.
func unrestricted(pod *corev1.PodTemplateSpec) []error {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return []error{err}
	}
	restricted := security.LevelVersion{Level: security.LevelRestricted, Version: security.LatestVersion()}
	var found []error
	for _, result := range evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec) {
		if !result.Allowed {
			found = append(found, fmt.Errorf("pod security: %s: %s", result.ForbiddenReason, result.ForbiddenDetail))
		}
	}
	return found
}
