Feature: Recovering

  Scenario: An object that somebody removed is restored
    Given the catalog "main" offers
      | version | contains              |
      | 1.0.0   | Deployment; ConfigMap |
    And the extension is created
    And version "1.0.0" is installed
    And the ConfigMap "${ID}-settings" is remembered
    When the ConfigMap "${ID}-settings" is removed
    Then the ConfigMap "${ID}-settings" is another one than before
    And the ConfigMap "${ID}-settings" belongs to the extension

  Scenario: An extension whose namespace comes later is installed then
    Given the catalog "main" offers
      | version | contains  |
      | 1.0.0   | ConfigMap |
    When the extension is created with
      """
      namespace: "${ID}-later"
      """
    Then the extension reports Progressing True because of Retrying
    When these objects are applied
      """
      apiVersion: v1
      kind: Namespace
      metadata: {name: "${ID}-later"}
      """
    And the account "installer" with all rights is made in the namespace "${ID}-later"
    Then the extension is rolled out
    And the extension is available

  Scenario: An object in the way is reported, and no longer when it has gone
    Given the catalog "main" offers
      | version | contains              |
      | 1.0.0   | Deployment; ConfigMap |
    And these objects
      """
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${ID}-settings", namespace: "${ID}"}
      data: {color: red}
      """
    When the extension is created
    Then the extension reports Progressing True because of Retrying, saying
      """
      revision object collisions
      Object ConfigMap.v1 ${ID}/${ID}-settings
      """
    And nothing is installed
    And the ConfigMap "${ID}-settings" has
      """
      data: {color: red}
      """
    When the ConfigMap "${ID}-settings" is removed
    Then the extension is rolled out
    And the extension is available
    And the ConfigMap "${ID}-settings" belongs to the extension

  Scenario: Objects are restored when the catalog is gone
    Given the catalog "main" offers
      | version | contains              |
      | 1.0.0   | Deployment; ConfigMap |
    And the extension is created
    And version "1.0.0" is installed
    And the catalog "main" is taken away
    And the ConfigMap "${ID}-settings" is remembered
    When the ConfigMap "${ID}-settings" is removed
    Then the ConfigMap "${ID}-settings" is another one than before
    And the ConfigMap "${ID}-settings" belongs to the extension
    And version "1.0.0" is still installed

  Scenario: An extension can be changed when the catalog is gone
    Given the catalog "main" offers
      | version | contains              |
      | 1.0.0   | Deployment; ConfigMap |
    And the extension is created
    And version "1.0.0" is installed
    And the catalog "main" is taken away
    When the extension is changed to
      """
      install: {preflight: {crdUpgradeSafety: {enforcement: None}}}
      """
    Then the extension is rolled out
    And the extension is available
    And version "1.0.0" is still installed

  @PreflightPermissions
  Scenario: An installation goes on when the account gets the rights it lacked
    Given the account "installer" gets no right to delete deployments
    And the catalog "main" offers
      | version | contains              |
      | 1.0.0   | Deployment; ConfigMap |
    When the extension is created
    Then the extension reports Progressing True because of Retrying, saying
      """
      pre-authorization failed: service account requires the following permissions to manage cluster extension:
      Namespace:"${ID}" APIGroups:[apps] Resources:[deployments] ResourceNames:[${ID}-operator] Verbs:[delete]
      """
    And nothing is installed
    When the account "installer" gets all rights it needs
    Then the extension is rolled out
    And the extension is available
