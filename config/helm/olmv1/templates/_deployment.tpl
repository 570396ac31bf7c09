{{/* The text of a generated file, in the namespaces of the values. */}}
{{- define "olmv1.file" -}}
{{- $namespaces := .root.Values.namespaces -}}
{{- .root.Files.Get (printf "files/%s.yaml" .name)
  | replace "olmv1-system" $namespaces.olmv1.name
  | replace "namespace: cert-manager\n" (printf "namespace: %s\n" $namespaces.certManager.name) -}}
{{- end -}}

{{/* A generated Deployment with what the values change in it: .root, .name of the file, .values of the program. */}}
{{- define "olmv1.deployment" -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $deployment := include "olmv1.file" . | fromYaml -}}
{{- $template := $deployment.spec.template -}}
{{- $container := first $template.spec.containers -}}
{{- $args := list -}}
{{- range $container.args -}}
  {{- if not (hasPrefix "--feature-gates=" .) }}{{ $args = append $args . }}{{ end -}}
{{- end -}}
{{- range $values.features.enabled }}{{ $args = append $args (printf "--feature-gates=%s=true" .) }}{{ end -}}
{{- range $values.features.disabled }}{{ $args = append $args (printf "--feature-gates=%s=false" .) }}{{ end -}}
{{- $catalogs := "operator-controller-deployment" -}}
{{- if $root.Values.options.catalogd.separate }}{{ $catalogs = "catalogd-deployment" }}{{ end -}}
{{- if $root.Values.options.classic.clusterCatalogs }}{{ $catalogs = "classic-deployment" }}{{ end -}}
{{- if and (eq .name "operator-controller-deployment") (ne .name $catalogs) -}}
  {{- $namespace := ternary "olm" $root.Values.namespaces.olmv1.name (eq $catalogs "classic-deployment") -}}
  {{- $args = append $args (printf "--catalogd-address=catalogd-service.%s.svc" $namespace) -}}
{{- end -}}
{{- if and (eq .name "classic-deployment") (eq .name $catalogs) -}}
  {{- $args = concat $args (list "--cluster-catalogs" "--external-address=catalogd-service.olm.svc") -}}
{{- end -}}
{{- if and (eq .name $catalogs) (ne .name "catalogd-deployment") -}}
  {{- /* catalogd is inside, and its gates with it; this one is on without a word. */ -}}
  {{- $gates := $root.Values.options.catalogd.features -}}
  {{- range without $gates.enabled "APIV1MetasHandler" }}{{ $args = append $args (printf "--feature-gates=%s=true" .) }}{{ end -}}
  {{- range $gates.disabled }}{{ $args = append $args (printf "--feature-gates=%s=false" .) }}{{ end -}}
{{- end -}}
{{- $env := default list $container.env -}}
{{- $variants := list -}}
{{- /* OLM Classic, in a namespace of its own, keeps a certificate of its own. */ -}}
{{- if ne .name "classic-deployment" -}}
  {{- if $root.Values.options.certManager.enabled }}{{ $variants = append $variants "cert-manager" }}{{ end -}}
  {{- if $root.Values.options.openshift.enabled }}{{ $variants = append $variants "openshift" }}{{ end -}}
{{- end -}}
{{- range $variants -}}
  {{- $additions := include "olmv1.file" (dict "root" $root "name" (printf "%s-additions" .)) | fromYaml -}}
  {{- $args = concat $args (default list $additions.args) -}}
  {{- if eq $.name "operator-controller-deployment" -}}
    {{- $args = concat $args (default list $additions.operatorControllerArgs) -}}
  {{- end -}}
  {{- $env = concat $env (default list $additions.env) -}}
  {{- $_ := set $container "volumeMounts" (concat $container.volumeMounts (default list $additions.volumeMounts)) -}}
  {{- $_ := set $template.spec "volumes" (concat $template.spec.volumes (default list $additions.volumes)) -}}
  {{- $_ := mergeOverwrite $template.metadata.annotations (default dict $additions.annotations) -}}
{{- end -}}
{{- $deployments := $root.Values.deployments -}}
{{- with concat $env $deployments.extraEnv }}{{ $_ := set $container "env" . }}{{ end -}}
{{- $_ := set $container "volumeMounts" (concat $container.volumeMounts $deployments.extraVolumeMounts) -}}
{{- $_ := set $template.spec "volumes" (concat $template.spec.volumes $deployments.extraVolumes) -}}
{{- $_ := set $container "args" (concat $args $values.deployment.extraArguments) -}}
{{- $_ := set $container "image" $values.deployment.image -}}
{{- $container = mergeOverwrite $container (deepCopy $root.Values.deployments.containerSpec) -}}
{{- $_ := set $template.spec "containers" (list $container) -}}
{{- $_ := set $template "spec" (mergeOverwrite $template.spec (deepCopy $root.Values.deployments.templateSpec)) -}}
{{- $_ := mergeOverwrite $template.metadata.labels (deepCopy $values.deployment.podLabels) -}}
{{- if ne (int $deployment.spec.replicas) 0 -}}
  {{- $_ := set $deployment.spec "replicas" $values.deployment.replicas -}}
{{- end -}}
{{- $_ := set $deployment.metadata.annotations "olm.operatorframework.io/feature-set" $root.Values.options.featureSet -}}
{{- toYaml $deployment -}}
{{- end -}}

{{/* A generated PodDisruptionBudget: .root, .name of the file, .values of the program. */}}
{{- define "olmv1.budget" -}}
{{- $budget := include "olmv1.file" . | fromYaml -}}
{{- $minimum := .values.podDisruptionBudget.minAvailable -}}
{{- if not (kindIs "invalid" $minimum) -}}
  {{- $_ := set $budget.spec "minAvailable" $minimum -}}
  {{- $_ := set $budget.spec "maxUnavailable" nil -}}
{{- end -}}
{{- toYaml $budget -}}
{{- end -}}
