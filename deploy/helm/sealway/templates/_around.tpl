{{/*
Objects around a Deployment: Service, PodDisruptionBudget, HorizontalPodAutoscaler, NetworkPolicy, ServiceMonitor.
`ports`: list of name, port and scheme. `metrics`: port, scheme and authorization, if there are any. `open`: ports that
everybody may reach, for probes. `peers`: ports for pods of the same component.
*/}}
{{- define "sealway.around" -}}
{{- $name := include "sealway.name" . }}
{{- $values := .values }}
{{- if .ports }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels:
    {{- include "sealway.labels" . | nindent 4 }}
  {{- with $values.service.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ $values.service.type }}
  {{- with $values.service.externalTrafficPolicy }}
  externalTrafficPolicy: {{ . }}
  {{- end }}
  selector:
    {{- include "sealway.selector" . | nindent 4 }}
  ports:
    {{- range .ports }}
    - name: {{ .name }}
      port: {{ index $values.service.ports .name | default .port }}
      targetPort: {{ .name }}
      appProtocol: {{ lower .scheme }}
    {{- end }}
{{- end }}
{{- if .metrics }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}-metrics
  labels:
    {{- include "sealway.labels" . | nindent 4 }}
    sealway/job: {{ printf "sealway-%s" .component }}
spec:
  clusterIP: None
  # A pod that is not ready has metrics that say why.
  publishNotReadyAddresses: true
  selector:
    {{- include "sealway.selector" . | nindent 4 }}
  ports:
    - { name: metrics, port: {{ .metrics.port }}, targetPort: {{ .metrics.port }} }
{{- end }}
{{- if and .metrics $values.serviceMonitor.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ $name }}
  labels:
    {{- include "sealway.labels" . | nindent 4 }}
    {{- with $values.serviceMonitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  # The alert rules know jobs by this name.
  jobLabel: sealway/job
  selector:
    matchLabels:
      {{- include "sealway.selector" . | nindent 6 }}
      sealway/job: {{ printf "sealway-%s" .component }}
  endpoints:
    - port: metrics
      scheme: {{ .metrics.scheme }}
      interval: {{ $values.serviceMonitor.interval }}
      {{- with .metrics.authorization }}
      authorization:
        credentials:
          {{- toYaml . | nindent 10 }}
      {{- end }}
      {{- with $values.serviceMonitor.tlsConfig }}
      tlsConfig:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end }}
{{- if $values.autoscaling.enabled }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ $name }}
  labels:
    {{- include "sealway.labels" . | nindent 4 }}
spec:
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: {{ $name }} }
  minReplicas: {{ $values.autoscaling.min }}
  maxReplicas: {{ $values.autoscaling.max }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: { type: Utilization, averageUtilization: {{ $values.autoscaling.cpuPercent }} }
  {{- with $values.autoscaling.behavior }}
  behavior:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- if and $values.podDisruptionBudget.enabled (or $values.autoscaling.enabled (gt (int $values.replicas) 1)) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels:
    {{- include "sealway.labels" . | nindent 4 }}
spec:
  maxUnavailable: {{ $values.podDisruptionBudget.maxUnavailable }}
  # A pod that is not ready must not keep a node from being drained.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "sealway.selector" . | nindent 6 }}
{{- end }}
{{- if $values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ $name }}
  labels:
    {{- include "sealway.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "sealway.selector" . | nindent 6 }}
  policyTypes: [Ingress{{ if $values.networkPolicy.egress }}, Egress{{ end }}]
  ingress:
    {{- if .ports }}
    - ports:
        {{- range .ports }}
        - { port: {{ .name }} }
        {{- end }}
      {{- with $values.networkPolicy.from }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
    {{- range .open }}
    - ports: [{ port: {{ . }} }]
    {{- end }}
    {{- with .metrics }}
    - ports: [{ port: {{ .port }} }]
      {{- with $values.networkPolicy.metricsFrom }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
    {{- range .peers }}
    - ports: [{ port: {{ . }} }]
      from:
        - podSelector:
            matchLabels:
              {{- include "sealway.selector" $ | nindent 14 }}
    {{- end }}
  {{- with $values.networkPolicy.egress }}
  egress:
    - ports: [{ port: 53, protocol: UDP }, { port: 53, protocol: TCP }]
    {{- range $.peers }}
    - ports: [{ port: {{ . }} }]
      to:
        - podSelector:
            matchLabels:
              {{- include "sealway.selector" $ | nindent 14 }}
    {{- end }}
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end -}}
