{{- define "sluice.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "sluice.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 55 | trimSuffix "-" }}
{{- else if contains (include "sluice.name" .) .Release.Name }}
{{- .Release.Name | trunc 55 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "sluice.name" .) | trunc 55 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "sluice.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "sluice.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- /* The controller of the classes that this installation serves. One with another class than the default one has a
controller of its own, so that it leaves those of other installations alone. */}}
{{- define "sluice.controller" -}}
{{- eq .Values.ingressClass.name "sluice" | ternary "sluice-proxy.github.io/controller" (printf "sluice-proxy.github.io/controller/%s" .Values.ingressClass.name) }}
{{- end }}

{{- /* The Lease of the replicas, as sluice names it. */}}
{{- define "sluice.installation" -}}
{{- eq .Values.ingressClass.name "sluice" | ternary "sluice" (printf "sluice-%s" .Values.ingressClass.name) }}
{{- end }}

{{- /* The labels by which Services and others find the pods. */}}
{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ include "sluice.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "sluice.metadata" -}}
name: {{ include "sluice.fullname" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "sluice.labels" . | nindent 2 }}
{{- end }}

{{- /* Objects without a namespace are named after the release's, so that two releases get along. */}}
{{- define "sluice.clusterMetadata" -}}
name: {{ printf "%s-%s" .Release.Namespace (include "sluice.fullname" .) | trunc 63 | trimSuffix "-" }}
labels:
  {{- include "sluice.labels" . | nindent 2 }}
{{- end }}

{{- define "sluice.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Bytes of a quantity. Suffixes as in the Kubernetes API; m is for CPUs. */}}
{{- define "sluice.bytes" -}}
{{- $text := toString . }}
{{- if not (regexMatch "^[0-9]+([.][0-9]+)?(k|M|G|T|Ki|Mi|Gi|Ti)?$" $text) }}
{{- fail (printf "%s is no quantity of memory: write, for example, 512Mi" $text) }}
{{- end }}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- mulf (regexFind "^[0-9.]+" $text) (get $units (regexFind "[kMGTi]+$" $text)) | int64 }}
{{- end }}

{{- /* Whole CPUs of a quantity, rounded up. */}}
{{- define "sluice.cpus" -}}
{{- $text := toString . }}
{{- if hasSuffix "m" $text }}
{{- divf (trimSuffix "m" $text) 1000 | ceil | int }}
{{- else }}
{{- ceil (float64 $text) | int }}
{{- end }}
{{- end }}

{{- /* The resources of the container that HAProxy runs in. */}}
{{- define "sluice.haproxyResources" -}}
{{- toYaml (eq .Values.layout "two-containers" | ternary .Values.haproxy.resources .Values.resources) }}
{{- end }}

{{- define "sluice.addresses" -}}
{{- $list := list }}
{{- if .listen.ipv4 }}{{ $list = append $list (printf "*:%d" (int .port)) }}{{ end }}
{{- if .listen.ipv6 }}{{ $list = append $list (printf "[::]:%d" (int .port)) }}{{ end }}
{{- join "," $list }}
{{- end }}

{{- /* Flags that the bootstrap tree needs as well as sluice itself. */}}
{{- define "sluice.commonArgs" -}}
- --run-dir=/run/sluice/run
- --http-address={{ include "sluice.addresses" (dict "listen" .Values.listen "port" .Values.listen.http) }}
- --https-address={{ include "sluice.addresses" (dict "listen" .Values.listen "port" .Values.listen.https) }}
- --health-address={{ include "sluice.addresses" (dict "listen" .Values.listen "port" .Values.listen.health) }}
{{- end }}

{{- /* Of the admin port. The kubelet asks from the node, in two containers: it gets to a loopback address only where that is the node's. */}}
{{- define "sluice.adminAddress" -}}
{{- range .Values.extraArgs }}
{{- if hasPrefix "--admin-address" . }}
{{- fail "extraArgs: set listen.adminHost and listen.admin in place of --admin-address, so that probes know them" }}
{{- end }}
{{- end }}
{{- $host := .Values.listen.adminHost }}
{{- if and (regexMatch "^(127[.]|::1$|localhost$)" $host) (not .Values.hostNetwork) }}
{{- fail (printf "listen.adminHost: nobody gets to %s in a pod; leave it empty, or set hostNetwork" $host) }}
{{- end }}
{{- contains ":" $host | ternary (printf "[%s]" $host) $host }}:{{ .Values.listen.admin }}
{{- end }}

{{- define "sluice.runArgs" -}}
- --config-dir=/run/sluice/config
- --state-dir=/var/lib/sluice
{{ include "sluice.commonArgs" . }}
- --admin-address={{ include "sluice.adminAddress" . }}
- --configmap={{ .Release.Namespace }}/{{ include "sluice.fullname" . }}
- --ingress-class={{ .Values.ingressClass.name }}
{{- if ne .Values.ingressClass.name "sluice" }}
- --controller-class={{ .Values.ingressClass.name }}
{{- end }}
{{- if .Values.watchIngressWithoutClass }}
- --watch-ingress-without-class
{{- end }}
{{- range .Values.watchNamespaces }}
- --watch-namespace={{ . }}
{{- end }}
{{- if not .Values.gateway.enabled }}
- --gateway-api=false
{{- else if .Values.gateway.addresses }}
- --gateway-addresses={{ join "," .Values.gateway.addresses }}
{{- end }}
{{- with .Values.defaultSSLCertificate }}
- --default-ssl-certificate={{ . }}
{{- end }}
{{- with .Values.defaultBackendService }}
- --default-backend-service={{ . }}
{{- end }}
{{- if .Values.tcp }}
- --tcp-services-configmap={{ .Release.Namespace }}/{{ include "sluice.fullname" . }}-tcp
{{- end }}
{{- if .Values.allowCrossNamespace }}
- --allow-cross-namespace
{{- end }}
- --update-status={{ .Values.status.update }}
- --leader-elect={{ .Values.status.leaderElection }}
{{- if .Values.status.addresses }}
- --publish-address={{ join "," .Values.status.addresses }}
{{- else if and .Values.service.enabled (eq .Values.service.type "LoadBalancer") }}
- --publish-service={{ .Release.Namespace }}/{{ include "sluice.fullname" . }}
{{- end }}
- --log-format={{ .Values.log.format }}
- --log-level={{ .Values.log.level }}
{{- end }}

{{- define "sluice.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
  # For ports below 1024. The programs in the image have it as a file capability.
  add: [NET_BIND_SERVICE]
{{- end }}

{{- define "sluice.haproxyProbes" -}}
# HAProxy itself answers, so neither a killed nor a hanging sluice takes it along.
startupProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 2
  failureThreshold: {{ div (add .Values.startupSeconds 1) 2 }}
livenessProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 10
  failureThreshold: 6
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{- define "sluice.preStop" -}}
{{- if .Values.drain.delaySeconds }}
lifecycle:
  preStop:
    # The pod still accepts connections until all load balancers and proxies have left it out.
    sleep: {seconds: {{ .Values.drain.delaySeconds }}}
{{- end }}
{{- end }}

{{- /* The ports of TCP services, each once: of the ConfigMap, and of Ingresses with tcp-service-port. */}}
{{- define "sluice.tcpPorts" -}}
{{- $ports := list }}
{{- range $port, $_ := .Values.tcp }}
{{- $ports = append $ports (int $port) }}
{{- end }}
{{- range .Values.service.tcpPorts }}
{{- $ports = append $ports (int .) }}
{{- end }}
{{- toYaml (uniq $ports) }}
{{- end }}

{{- define "sluice.trafficPorts" -}}
- {name: http, containerPort: {{ .Values.listen.http }}, protocol: TCP}
- {name: https, containerPort: {{ .Values.listen.https }}, protocol: TCP}
- {name: health, containerPort: {{ .Values.listen.health }}, protocol: TCP}
{{- range include "sluice.tcpPorts" . | fromYamlArray }}
- {name: tcp-{{ . }}, containerPort: {{ . }}, protocol: TCP}
{{- end }}
{{- end }}

{{- define "sluice.controllerEnv" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
{{- with dig "limits" "memory" "" .Values.resources }}
# How hard Go's garbage collector tries; how many CPUs it uses follows from the container's limit by itself.
- name: GOMEMLIMIT
  value: {{ eq $.Values.layout "two-containers" | ternary (div (mul (include "sluice.bytes" .) 9) 10) (div (include "sluice.bytes" .) 4) | quote }}
{{- if eq $.Values.layout "one-container" }}
- name: MEMORY_LIMIT
  valueFrom: {resourceFieldRef: {containerName: sluice, resource: limits.memory}}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "sluice.controllerMounts" -}}
- {name: shared, mountPath: /run/sluice}
- {name: state, mountPath: /var/lib/sluice}
- {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* A setting as text. Numbers of YAML reach templates as floats, which would be written as 1e+06. */}}
{{- define "sluice.text" }}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}
