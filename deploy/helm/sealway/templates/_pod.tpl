{{/* Metadata and selector of a Deployment, up to its pods. `checksum`: text whose change replaces them. */}}
{{- define "sealway.deployment" -}}
metadata:
  name: {{ include "sealway.name" . }}
  labels:
    {{- include "sealway.labels" . | nindent 4 }}
spec:
  {{- if not .values.autoscaling.enabled }}
  replicas: {{ .values.replicas }}
  {{- end }}
  strategy:
    {{- toYaml (eq .values.strategy.type "Recreate" | ternary (omit .values.strategy "rollingUpdate") .values.strategy) | nindent 4 }}
  selector:
    matchLabels:
      {{- include "sealway.selector" . | nindent 6 }}
{{- end -}}

{{- define "sealway.podMetadata" -}}
labels:
  {{- include "sealway.selector" . | nindent 2 }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  checksum/config: {{ .checksum | sha256sum }}
  {{- with .values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* A pod's own settings. `grace`: seconds from SIGTERM to SIGKILL. */}}
{{- define "sealway.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
terminationGracePeriodSeconds: {{ .grace }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .values.user }}
  runAsGroup: {{ .values.user }}
  fsGroup: {{ .values.user }}
  # Otherwise each start would open the broker's keys to the group, and the broker would reject them.
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- if ne .values.topologySpread "none" }}
topologySpreadConstraints:
  {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - topologyKey: {{ $key }}
    maxSkew: 1
    whenUnsatisfiable: {{ $.values.topologySpread }}
    labelSelector:
      matchLabels:
        {{- include "sealway.selector" $ | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $.values $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "sealway.container" -}}
image: {{ .values.image | quote }}
imagePullPolicy: {{ .root.Values.imagePullPolicy }}
securityContext:
  {{- include "sealway.confined" . | nindent 2 }}
resources:
  {{- toYaml .values.resources | nindent 2 }}
{{- end -}}

{{- define "sealway.mounts" -}}
{{- range $name, $_ := .values.secrets }}
- { name: {{ printf "secret-%s" $name }}, mountPath: {{ printf "/etc/sealway/secrets/%s" $name | quote }}, readOnly: true }
{{- end }}
{{- with .values.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "sealway.volumes" -}}
{{- range $name, $secret := .values.secrets }}
- name: {{ printf "secret-%s" $name }}
  secret: { secretName: {{ $secret | quote }}, defaultMode: 0440 }
{{- end }}
{{- with .values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
