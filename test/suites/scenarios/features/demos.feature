@demo
Feature: First steps

  Scenario: A catalog tells what it has
    Given the catalog "main" offers
      | version | replaces | contains  |
      | 1.0.0   |          | ConfigMap |
      | 1.1.0   | 1.0.0    | ConfigMap |
    Then the catalog "main" serves
    And the catalog "main" answers "metas?schema=olm.package" with the names
      | ${ID} |
    And the catalog "main" answers "metas?schema=olm.channel&package=${ID}" with the names
      | stable |
    And the catalog "main" answers "metas?schema=olm.bundle&package=${ID}" with the names
      | ${ID}.v1.0.0 |
      | ${ID}.v1.1.0 |

  @SingleOwnNamespaceInstallSupport
  Scenario: An operator watches one other namespace
    Given the catalog "main" offers
      | version | contains                                         |
      | 1.0.0   | CRD; Deployment; ConfigMap; Mode(SingleNamespace) |
    And these objects
      """
      apiVersion: v1
      kind: Namespace
      metadata: {name: "${ID}-watched"}
      """
    When the extension is created with
      """
      config: {configType: Inline, inline: {watchNamespace: "${ID}-watched"}}
      """
    Then the extension is rolled out
    And the Deployment "${ID}-operator" has
      """
      metadata: {namespace: "${ID}"}
      spec: {template: {metadata: {annotations: {olm.targetNamespaces: "${ID}-watched"}}}}
      """

  @SingleOwnNamespaceInstallSupport
  Scenario: An operator watches its own namespace
    Given the catalog "main" offers
      | version | contains                                      |
      | 1.0.0   | CRD; Deployment; ConfigMap; Mode(OwnNamespace) |
    When the extension is created with
      """
      config: {configType: Inline, inline: {watchNamespace: "${ID}"}}
      """
    Then the extension is rolled out
    And the Deployment "${ID}-operator" has
      """
      spec: {template: {metadata: {annotations: {olm.targetNamespaces: "${ID}"}}}}
      """

  @WebhookProviderCertManager
  Scenario: An operator with webhooks works with objects of its newer version
    Given the catalog "main" offers
      | version | contains       |
      | 1.0.0   | SampleOperator |
    When the extension is created
    And the sample operator runs
    Then the extension is rolled out
    When the webhooks let this object pass
      """
      apiVersion: ${ID}.example.com/v2
      kind: Sample
      metadata: {name: first}
      spec: {content: {text: hello}, copies: 2}
      """
    Then the Sample.v1.${ID}.example.com "first" has
      """
      spec: {message: hello, copies: 2}
      status: {configMap: first, copies: 2}
      """
    And the ConfigMap "first" has
      """
      data: {copy-1: hello, copy-2: hello}
      """
