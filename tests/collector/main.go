// An OpenTelemetry collector of the released parts that the tests and deploy/compose/collector.yaml need: OTLP comes in and
// is printed. Where the configuration names the extension `token`, callers have to show its authorization.
package main

import (
	"context"
	"errors"
	"log"
	"strings"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/debugexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensionauth"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/batchprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

// What callers have to show.
type demand struct {
	Authorization string `mapstructure:"authorization"`
}

// Refuses those that do not. It is asked on both protocols.
type token struct {
	component.StartFunc
	component.ShutdownFunc
	demand string
}

var _ extensionauth.Server = token{}

func (t token) Authenticate(ctx context.Context, headers map[string][]string) (context.Context, error) {
	for name, values := range headers {
		if strings.EqualFold(name, "authorization") && len(values) == 1 && values[0] == t.demand {
			return ctx, nil
		}
	}
	return ctx, errors.New("no authorization, or another one")
}

func newToken(_ context.Context, _ extension.Settings, config component.Config) (extension.Extension, error) {
	return token{demand: config.(*demand).Authorization}, nil
}

func parts() (made otelcol.Factories, err error) {
	made.Telemetry = otelconftelemetry.NewFactory()
	tokens := extension.NewFactory(component.MustNewType("token"), func() component.Config { return &demand{} }, newToken,
		component.StabilityLevelDevelopment)
	if made.Extensions, err = otelcol.MakeFactoryMap[extension.Factory](tokens); err != nil {
		return made, err
	}
	if made.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
		return made, err
	}
	if made.Processors, err = otelcol.MakeFactoryMap[processor.Factory](batchprocessor.NewFactory()); err != nil {
		return made, err
	}
	made.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](debugexporter.NewFactory())
	return made, err
}

func main() {
	providers := []confmap.ProviderFactory{fileprovider.NewFactory()}
	settings := otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "otelcol", Description: "A collector for tests", Version: "0.139.0"},
		Factories: parts,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{
			ResolverSettings: confmap.ResolverSettings{ProviderFactories: providers, DefaultScheme: "file"},
		},
	}
	if err := otelcol.NewCommand(settings).Execute(); err != nil {
		log.Fatal(err)
	}
}
