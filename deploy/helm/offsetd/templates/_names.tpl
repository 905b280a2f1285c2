{{- define "offsetd.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end -}}
{{- end }}

{{- define "offsetd.nodes" -}}
{{ include "offsetd.name" . }}-nodes
{{- end }}

{{- define "offsetd.account" -}}
{{- if .Values.serviceAccount.name }}{{ .Values.serviceAccount.name }}
{{- else if .Values.serviceAccount.create }}{{ include "offsetd.name" . }}
{{- else }}default{{ end -}}
{{- end }}

{{- define "offsetd.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "offsetd.labels" -}}
{{ include "offsetd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "offsetd.serverName" -}}
{{ .Values.tls.serverName | default (printf "%s.%s.svc" (include "offsetd.name" .) .Release.Namespace) }}
{{- end }}

{{/* Not empty if there is a metrics port: beyond loopback it needs TLS and a token. */}}
{{- define "offsetd.hasMetrics" -}}
{{- if and .Values.metrics.enabled (or .Values.insecure .Values.metrics.token.secret) }}yes{{ end -}}
{{- end }}

{{/* The claim of the volume for backups; empty without one. */}}
{{- define "offsetd.backupClaim" -}}
{{- with .Values.backup.volume }}
{{- if .claim }}{{ .claim }}{{ else if .size }}{{ include "offsetd.name" $ }}-backups{{ end }}
{{- end }}
{{- end }}

{{/* A refusal that the server would make, made before anything is installed. */}}
{{- define "offsetd.check" -}}
{{- $v := .Values }}
{{- if not $v.insecure }}
  {{- if not $v.tls.secret }}
    {{- fail "set tls.secret to a secret with tls.crt and tls.key, or say insecure: true" }}
  {{- end }}
  {{- if not (or $v.acls (eq (toString (index $v.settings "security.acl.enable")) "true")) }}
    {{- fail "set acls to rules, or settings.security.acl.enable to true, or say insecure: true" }}
  {{- end }}
{{- end }}
{{- if and $v.metrics.token.secret (not $v.tls.secret) }}
  {{- fail "metrics.token.secret needs tls.secret: a token must not be sent in plain text" }}
{{- end }}
{{- if and $v.backup.target (include "offsetd.backupClaim" .) }}
  {{- fail "set backup.target or backup.volume, not both" }}
{{- end }}
{{- if and $v.backup.volume.claim $v.backup.volume.size }}
  {{- fail "set backup.volume.claim or backup.volume.size, not both" }}
{{- end }}
{{- end }}

{{/* The settings of the chart, with those of the user over them, as a TOML file. */}}
{{- define "offsetd.toml" -}}
{{- $v := .Values }}
{{- $all := dict "data.dir" "/var/lib/offsetd/data" "listen.address" "0.0.0.0:7171" "metrics.address" "" }}
{{- if $v.insecure }}{{ $_ := set $all "security.allow.insecure" "true" }}{{ end }}
{{- if include "offsetd.hasMetrics" . }}{{ $_ := set $all "metrics.address" "0.0.0.0:9464" }}{{ end }}
{{- with $v.cluster.bootstrapServers }}{{ $_ := set $all "cluster.bootstrap.servers" . }}{{ end }}
{{- range $name, $value := $v.cluster.kafka }}{{ $_ := set $all (printf "cluster.kafka.%s" $name) $value }}{{ end }}
{{- if $v.cluster.kafkaSecret.name }}
  {{- range $name, $key := $v.cluster.kafkaSecret.files }}
    {{- $_ := set $all (printf "cluster.kafka.%s.file" $name) (printf "/etc/offsetd/kafka/%s" $key) }}
  {{- end }}
{{- end }}
{{- if $v.tls.secret }}
  {{- $_ := set $all "ssl.certificate.file" "/etc/offsetd/tls/tls.crt" }}
  {{- $_ := set $all "ssl.key.file" "/etc/offsetd/tls/tls.key" }}
  {{- if eq $v.tls.clientAuth "required" }}
    {{- $_ := set $all "ssl.client.auth" "required" }}
    {{- $_ := set $all "ssl.truststore.file" "/etc/offsetd/tls/ca.crt" }}
  {{- end }}
{{- end }}
{{- if $v.acls }}{{ $_ := set $all "security.acl.file" "/etc/offsetd/settings/acls.toml" }}{{ end }}
{{- with $v.backup.target }}{{ $_ := set $all "backup.target" . }}{{ end }}
{{- if include "offsetd.backupClaim" . }}{{ $_ := set $all "backup.target" "/var/lib/offsetd-backups" }}{{ end }}
{{- if and $v.cluster.bootstrapServers $v.tls.secret (hasKey $all "backup.target") }}
  {{- $_ := set $all "backup.client.ca.file" "/etc/offsetd/tls/ca.crt" }}
  {{- if eq $v.tls.clientAuth "required" }}
    {{- $_ := set $all "backup.client.certificate.file" "/etc/offsetd/tls/tls.crt" }}
    {{- $_ := set $all "backup.client.key.file" "/etc/offsetd/tls/tls.key" }}
  {{- end }}
{{- end }}
{{- with $v.superUsers }}{{ $_ := set $all "super.users" . }}{{ end }}
{{- if $v.tokens.secret }}
  {{- $_ := set $all "security.tokens.file" (printf "/etc/offsetd/tokens/%s" $v.tokens.key) }}
{{- end }}
{{- if $v.metrics.token.secret }}
  {{- $_ := set $all "metrics.ssl.enable" "true" }}
  {{- $_ := set $all "metrics.token.file" (printf "/etc/offsetd/metrics/%s" $v.metrics.token.key) }}
{{- end }}
{{- range $name, $value := merge (deepCopy $v.settings) $all -}}
{{ $name | quote }} = {{ ternary ($value | int64 | toString) ($value | toString) (kindIs "float64" $value) | quote }}
{{ end }}
{{- end }}

{{/* How Kubernetes asks for the health: its own gRPC probe speaks no TLS. */}}
{{- define "offsetd.probe" -}}
{{- if .Values.tls.secret -}}
exec:
  command: [offsetd, admin, health]
{{- else -}}
grpc:
  port: 7171
{{- end }}
{{- end }}

{{/* The mounted secrets, by the name of their folder. */}}
{{- define "offsetd.secrets" -}}
{{- with .Values.tls.secret }}tls: {{ . }}
{{ end }}
{{- with .Values.tokens.secret }}tokens: {{ . }}
{{ end }}
{{- with .Values.metrics.token.secret }}metrics: {{ . }}
{{ end }}
{{- with .Values.cluster.kafkaSecret.name }}kafka: {{ . }}
{{ end }}
{{- end }}
