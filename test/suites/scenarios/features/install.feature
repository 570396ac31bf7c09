Feature: Installing

  Scenario: The newest version of a package is installed
    Given the catalog "main" offers
      | version | replaces | contains                                 |
      | 1.0.0   |          | CRD; Deployment; ConfigMap; NetworkPolicy |
      | 1.2.0   | 1.0.0    | CRD; Deployment; ConfigMap; NetworkPolicy |
    When the extension is created
    Then the extension is rolled out
    And the extension is available
    And version "1.2.0" is installed
    And the NetworkPolicy "${ID}-policy" belongs to the extension
    And the ConfigMap "${ID}-settings" belongs to the extension
    And the Deployment "${ID}-operator" belongs to the extension

  @mirror
  Scenario: Images are pulled from the mirror of the registry that their references name
    Given the catalog "main", pulled from the mirrored registry, offers
      | version | contains                   |
      | 1.0.0   | CRD; Deployment; ConfigMap |
    When the extension is created
    Then the extension is rolled out
    And the extension is available
    And version "1.0.0" is installed

  Scenario: Two catalogs of one priority that offer the same package are an ambiguity
    Given the catalog "main" offers
      | version | contains  |
      | 1.0.0   | ConfigMap |
    And the catalog "other" offers
      | version | contains  |
      | 1.0.0   | ConfigMap |
    When the extension is created with
      """
      source:
        catalog:
          selector: {matchLabels: {olm.operatorframework.io/metadata.name: null, scenario: "${ID}"}}
      """
    Then the extension reports Progressing True because of Retrying, saying
      """
      in multiple catalogs with the same priority [${ID}-main ${ID}-other]
      """
    And nothing is installed

  @SingleOwnNamespaceInstallSupport
  Scenario: A package for a single namespace has to be told which one
    Given the catalog "main" offers
      | version | contains                                     |
      | 1.0.0   | CRD; Deployment; Mode(SingleNamespace) |
    And these objects
      """
      apiVersion: v1
      kind: Namespace
      metadata: {name: "${ID}-watched"}
      """
    When the extension is created
    Then the extension reports Progressing False because of InvalidConfiguration, saying
      """
      error for resolved bundle "${ID}.v1.0.0" with version "1.0.0": invalid ClusterExtension configuration: invalid configuration: required field "watchNamespace" is missing
      """
    When the extension is changed to
      """
      config: {configType: Inline, inline: {watchNamespace: "${ID}-watched"}}
      """
    Then the extension is rolled out
    And the extension is available
    And the Deployment "${ID}-operator" has
      """
      spec: {template: {metadata: {annotations: {olm.targetNamespaces: "${ID}-watched"}}}}
      """

  @SingleOwnNamespaceInstallSupport
  Scenario: A package for its own namespace accepts no other
    Given the catalog "main" offers
      | version | contains                            |
      | 1.0.0   | CRD; Deployment; Mode(OwnNamespace) |
    When the extension is created
    Then the extension reports Progressing False because of InvalidConfiguration, saying
      """
      invalid configuration: required field "watchNamespace" is missing
      """
    When the extension is changed to
      """
      config: {configType: Inline, inline: {watchNamespace: some-other}}
      """
    Then the extension reports Progressing False because of InvalidConfiguration, saying
      """
      'some-other' is not valid ownNamespaceInstallMode: invalid value "some-other": must be "${ID}" (the namespace where the operator is installed) because this operator only supports OwnNamespace install mode
      """
    When the extension is changed to
      """
      config: {configType: Inline, inline: {watchNamespace: "${ID}"}}
      """
    Then the extension is rolled out
    And the extension is available
    And the Deployment "${ID}-operator" has
      """
      spec: {template: {metadata: {annotations: {olm.targetNamespaces: "${ID}"}}}}
      """

  @SingleOwnNamespaceInstallSupport
  Scenario: A watched namespace that can be no namespace is refused
    Given the catalog "main" offers
      | version | contains                                                  |
      | 1.0.0   | Deployment; Mode(SingleNamespace); Mode(OwnNamespace) |
    When the extension is created with
      """
      config: {configType: Inline, inline: {watchNamespace: "not a name"}}
      """
    Then the extension reports Progressing False because of InvalidConfiguration, saying
      """
      field "watchNamespace" must match pattern "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
      """
    And nothing is installed

  @SingleOwnNamespaceInstallSupport
  Scenario: A package for all namespaces alone cannot be told one
    Given the catalog "main" offers
      | version | contains   |
      | 1.0.0   | Deployment |
    When the extension is created with
      """
      config: {configType: Inline, inline: {watchNamespace: "${ID}"}}
      """
    Then the extension reports Progressing False because of InvalidConfiguration, saying
      """
      unknown field "watchNamespace"
      """
    And nothing is installed

  @BoxcutterRuntime
  Scenario: A roll-out whose workload is not ready in time is reported
    Given progress deadlines may be as short as a minute
    And the catalog "main" offers
      | version | contains                     |
      | 1.0.0   | CRD; Deployment(never ready) |
    When the extension is created with
      """
      progressDeadlineMinutes: 1
      """
    Then the ClusterObjectSet "${ID}-1" reports Progressing False because of ProgressDeadlineExceeded, saying
      """
      Revision has not rolled out for 1 minute(s).
      """
    And the extension reports Progressing False because of ProgressDeadlineExceeded, saying
      """
      Revision has not rolled out for 1 minute(s).
      """

  @BoxcutterRuntime
  Scenario: A roll-out whose image nobody can pull is reported when its time is over
    Given progress deadlines may be as short as a minute
    And the catalog "main" offers
      | version | contains                       |
      | 1.0.0   | CRD; Deployment(no such image) |
    When the extension is created with
      """
      progressDeadlineMinutes: 1
      """
    Then the extension reports Progressing False because of ProgressDeadlineExceeded, saying
      """
      Revision has not rolled out for 1 minute(s).
      """
    And the ClusterObjectSet "${ID}-1" reports Progressing False because of ProgressDeadlineExceeded

  @BoxcutterRuntime
  Scenario: A revision carries the properties of its bundle
    Given the catalog "main" offers
      | version | contains                                                                     |
      | 1.0.0   | Deployment; Properties([{"type":"olm.maxOpenShiftVersion","value":"4.99"}]) |
    When the extension is created
    Then the extension is rolled out
    And the ClusterObjectSet "${ID}-1" has
      """
      metadata:
        annotations:
          olm.properties: '[{"type":"olm.maxOpenShiftVersion","value":"4.99"}]'
      """

  @BoxcutterRuntime
  Scenario: A revision says whose it is and what it is made of
    Given the catalog "main" offers
      | version | contains              |
      | 1.0.0   | Deployment; ConfigMap |
    When the extension is created
    Then the extension is rolled out
    And the ClusterObjectSet "${ID}-1" has
      """
      metadata:
        labels:
          olm.operatorframework.io/owner-kind: ClusterExtension
          olm.operatorframework.io/owner-name: "${ID}"
        annotations:
          olm.operatorframework.io/bundle-name: "${ID}.v1.0.0"
          olm.operatorframework.io/bundle-version: 1.0.0
          olm.operatorframework.io/bundle-reference: "*"
          olm.operatorframework.io/package-name: "${ID}"
          olm.operatorframework.io/service-account-name: installer
          olm.operatorframework.io/service-account-namespace: "${ID}"
        ownerReferences:
        - {kind: ClusterExtension, name: "${ID}", controller: true, blockOwnerDeletion: true}
      """

  @BoxcutterRuntime
  Scenario: The objects of a revision lie in Secrets that nobody can change
    Given the catalog "main" offers
      | version | contains                   |
      | 1.0.0   | CRD; Deployment; ConfigMap |
    When the extension is created
    Then the extension is rolled out
    And all objects of the revision "${ID}-1" lie in immutable Secrets of the system namespace

  @DeploymentConfig
  Scenario: The operator runs on the nodes that its configuration selects
    Given the catalog "main" offers
      | version | contains   |
      | 1.0.0   | Deployment |
    When the extension is created with
      """
      config:
        configType: Inline
        inline: {deploymentConfig: {nodeSelector: {kubernetes.io/os: linux}}}
      """
    Then the extension is rolled out
    And the extension is available
    And the Deployment "${ID}-operator" has
      """
      spec: {template: {spec: {nodeSelector: {kubernetes.io/os: linux}}}}
      """

  @BoxcutterRuntime
  Scenario: A definition too large for a Secret is stored compressed
    Given the catalog "main" offers
      | version | contains                  |
      | 1.0.0   | LargeCRD(250); Deployment |
    When the extension is created
    Then the extension is rolled out
    And the extension is available
    And the CustomResourceDefinition "gadgets.${ID}.example.com" belongs to the extension
    And a Secret of the revision "${ID}-1" holds a compressed object

  Scenario: An account that does not exist is reported until it does
    Given the catalog "main" offers
      | version | contains  |
      | 1.0.0   | ConfigMap |
    When the extension is created with
      """
      serviceAccount: {name: nobody}
      """
    Then the extension reports Progressing True because of Retrying, saying
      """
      operation cannot proceed due to the following validation error(s): service account "nobody" not found in namespace "${ID}"
      """
    And the extension reports Installed Unknown because of Failed, saying
      """
      service account "nobody" not found in namespace "${ID}"
      """
    When the account "nobody" is made and gets all rights it needs
    Then version "1.0.0" is installed

  @BoxcutterRuntime @PreflightPermissions
  Scenario: Missing rights to create are told before anything is written
    Given the account "installer" gets no right to create configmaps
    And the catalog "main" offers
      | version | contains              |
      | 1.0.0   | Deployment; ConfigMap |
    When the extension is created
    Then the extension reports Progressing True because of Retrying, saying
      """
      pre-authorization failed: service account requires the following permissions to manage cluster extension:
      Namespace:"${ID}" APIGroups:[] Resources:[configmaps] Verbs:[create]
      """
    And there is no ClusterObjectSet "${ID}-1"
    When the account "installer" gets all rights it needs
    Then the extension is rolled out
    And the extension is available

  @WebhookProviderCertManager
  Scenario: An operator's webhooks convert, fill in and refuse
    Given the catalog "main" offers
      | version | contains       |
      | 1.0.0   | SampleOperator |
    When the extension is created
    And the sample operator runs
    Then the extension is rolled out
    And the extension is available
    When the webhooks let this object pass
      """
      apiVersion: ${ID}.example.com/v1
      kind: Sample
      metadata: {name: first}
      spec: {message: hello}
      """
    Then the Sample.v1.${ID}.example.com "first" has
      """
      spec: {message: hello, copies: 1}
      """
    And the Sample.v2.${ID}.example.com "first" has
      """
      spec: {message: null, content: {text: hello}, copies: 1}
      """
    And the webhooks refuse, saying "spec.copies is 11: a Sample has 1 to 10 copies", this object
      """
      apiVersion: ${ID}.example.com/v1
      kind: Sample
      metadata: {name: second}
      spec: {message: too often, copies: 11}
      """
