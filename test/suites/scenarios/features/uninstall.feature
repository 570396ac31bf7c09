Feature: Uninstalling

  Background:
    Given the catalog "main" offers
      | version | contains                                  |
      | 1.0.0   | CRD; Deployment; ConfigMap; NetworkPolicy |
    And the extension is created
    And version "1.0.0" is installed
    And the extension reports Available True because of ProbesSucceeded

  Scenario: With the extension goes everything that it installed
    Then 8 objects of the extension exist at least
    When the extension is deleted
    Then nothing of the extension is left

  Scenario: Everything goes also when the account is no longer there
    Given the ServiceAccount "installer" is removed
    When the extension is deleted
    Then nothing of the extension is left

  Scenario: A deletion policy keeps the CRD and its objects
    Given these objects
      """
      apiVersion: ${ID}.example.com/v1
      kind: Gadget
      metadata: {name: mine, namespace: "${ID}"}
      spec: {}
      """
    And the CustomResourceDefinition "gadgets.${ID}.example.com" is remembered
    When the ClusterExtension "${ID}" is changed to
      """
      metadata: {annotations: {extensions.olm.operatorframework.io/deletion-policy: RetainCRDs}}
      """
    Then the extension reports DeletionPolicy True because of RetainCRDs
    When the extension is deleted
    Then the Deployment "${ID}-operator" goes away
    And the CustomResourceDefinition "gadgets.${ID}.example.com" has
      """
      metadata: {ownerReferences: null}
      """
    And the CustomResourceDefinition "gadgets.${ID}.example.com" is the same as before
    And the Gadget.v1.${ID}.example.com "mine" exists
    When the CustomResourceDefinition "gadgets.${ID}.example.com" is removed
