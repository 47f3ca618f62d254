{{/* Templates take a dictionary: `root` (the chart's $), `component`, and `values` (defaults and the component's own). */}}

{{- define "sealway.name" -}}
{{- $base := ternary .root.Release.Name (printf "%s-sealway" .root.Release.Name) (contains "sealway" .root.Release.Name) -}}
{{- printf "%s-%s" (trunc 40 $base | trimSuffix "-") .component -}}
{{- end -}}

{{- define "sealway.selector" -}}
app.kubernetes.io/name: sealway
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "sealway.labels" -}}
{{ include "sealway.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end -}}

{{/* Bounds of every container; the user is the pod's. */}}
{{- define "sealway.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}
