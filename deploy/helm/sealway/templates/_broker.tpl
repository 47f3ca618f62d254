{{/*
The broker as a sidecar, for this chart and for others that depend on it. `root`: the including chart's $; `broker`: the
values of this chart under `broker`, which another chart has under .Values.sealway.broker.
*/}}

{{/* Fails for a Deployment whose brokers would meet on one volume. */}}
{{- define "sealway.broker.check" -}}
{{- if hasKey .root.Values.broker.volume "persistentVolumeClaim" }}
{{- if or .values.autoscaling.enabled (gt (int .values.replicas) 1) }}
{{- fail (printf "%s.replicas: 1 is the most with a claim in broker.volume, because keys and audit log belong to one broker" .component) }}
{{- end }}
{{- if ne .values.strategy.type "Recreate" }}
{{- fail (printf "%s.strategy.type: Recreate is needed with a claim in broker.volume, because keys and audit log belong to one broker" .component) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Items of initContainers. With restartPolicy Always the container is a sidecar: it starts before the others and ends after them. */}}
{{- define "sealway.broker.container" -}}
- name: broker
  image: {{ .broker.image | quote }}
  imagePullPolicy: {{ .broker.imagePullPolicy }}
  restartPolicy: Always
  command: [/usr/bin/sealway]
  args:
    - broker
    - serve
    {{- if .broker.callers }}
    - --callers=/etc/sealway/broker/callers.yaml
    {{- end }}
    {{- if .broker.volume }}
    # The group may write the volume, and only this pod has that group there.
    - --shared-folder
    {{- if .broker.kek.secret }}
    - --keys=/var/lib/sealway-broker/keys
    {{- end }}
    {{- if .broker.audit }}
    - --audit=/var/lib/sealway-broker/audit.jsonl
    {{- end }}
    {{- end }}
    {{- with .broker.args }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  env:
    - { name: CRYPTO_BROKER_PROFILES_DIR, value: /etc/sealway/broker }
    - { name: CRYPTO_BROKER_LOG_LEVEL, value: {{ .broker.logLevel | quote }} }
    - { name: CRYPTO_BROKER_REQUIRE_FIPS, value: {{ .broker.requireFips | quote }} }
    {{- with .broker.kek }}
    {{- if .secret }}
    - name: CRYPTO_BROKER_KEK
      valueFrom: { secretKeyRef: { name: {{ .secret }}, key: {{ .key }} } }
    {{- end }}
    {{- end }}
    {{- if .broker.telemetry.enabled }}
    - { name: OTEL_TRACES_EXPORTER, value: otlphttp }
    - { name: OTEL_METRICS_EXPORTER, value: otlphttp }
    - { name: OTEL_METRICS_INTERVAL, value: {{ .broker.telemetry.interval | quote }} }
    - { name: OTEL_LOGS_EXPORTER, value: otlphttp }
    - { name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ .broker.telemetry.endpoint | default "http://127.0.0.1:4318" | quote }} }
    {{- end }}
    {{- with .broker.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  securityContext:
    {{- include "sealway.confined" . | nindent 4 }}
  resources:
    {{- toYaml .broker.resources | nindent 4 }}
  {{- range $probe, $failures := dict "startupProbe" 30 "readinessProbe" 1 "livenessProbe" 3 }}
  {{ $probe }}:
    exec:
      command: [/usr/bin/sealway, broker, health]
    periodSeconds: {{ eq $probe "startupProbe" | ternary 1 10 }}
    timeoutSeconds: 3
    failureThreshold: {{ $failures }}
  {{- end }}
  volumeMounts:
    # The broker makes a folder in it that only its user may enter.
    {{- include "sealway.broker.mounts" . | nindent 4 }}
    # A folder, not the file alone: a file of its own would never change.
    - { name: broker-config, mountPath: /etc/sealway/broker, readOnly: true }
    {{- if .broker.volume }}
    - { name: broker-data, mountPath: /var/lib/sealway-broker }
    {{- end }}
{{- end -}}

{{/* Items of the volumeMounts of the container that calls the broker. */}}
{{- define "sealway.broker.mounts" -}}
- { name: broker-socket, mountPath: /tmp }
{{- end -}}

{{/* Items of containers: a collector in the pod, if telemetry has no endpoint elsewhere. */}}
{{- define "sealway.broker.collector" -}}
{{- if and .broker.telemetry.enabled (not .broker.telemetry.endpoint) -}}
- name: collector
  image: {{ .broker.telemetry.collector.image | quote }}
  imagePullPolicy: {{ .broker.imagePullPolicy }}
  args: ["--config=/etc/collector/collector.yaml"]
  securityContext:
    {{- include "sealway.confined" . | nindent 4 }}
  resources:
    {{- toYaml .broker.telemetry.collector.resources | nindent 4 }}
  volumeMounts:
    - { name: broker-config, mountPath: /etc/collector, readOnly: true }
{{- end -}}
{{- end -}}

{{/* Items of volumes. */}}
{{- define "sealway.broker.volumes" -}}
- name: broker-socket
  emptyDir: { medium: Memory, sizeLimit: {{ .broker.socket.sizeLimit }} }
- name: broker-config
  configMap: { name: {{ include "sealway.name" (dict "root" .root "component" "broker") }}, defaultMode: 0444 }
{{- with .broker.volume }}
- name: broker-data
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
