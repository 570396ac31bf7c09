Feature: Updating

  Scenario: An extension is updated to the successor of its version
    Given the catalog "main" offers
      | version | replaces | contains                   |
      | 1.0.0   |          | CRD; Deployment; ConfigMap |
      | 1.0.1   | 1.0.0    | CRD; Deployment; ConfigMap |
    And the extension is created with
      """
      source: {catalog: {version: 1.0.0}}
      """
    And version "1.0.0" is installed
    When the extension is changed to
      """
      source: {catalog: {version: 1.0.1}}
      """
    Then version "1.0.1" is installed
    And the extension is rolled out
    And the extension is available

  Scenario: An extension is not updated to a version that is no successor
    Given the catalog "main" offers
      | version | replaces | contains              |
      | 1.0.0   |          | Deployment; ConfigMap |
      | 1.0.1   | 1.0.0    | Deployment; ConfigMap |
      | 1.2.0   | 1.0.1    | Deployment; ConfigMap |
    And the extension is created with
      """
      source: {catalog: {version: 1.0.0}}
      """
    And version "1.0.0" is installed
    When the extension is changed to
      """
      source: {catalog: {version: 1.2.0}}
      """
    Then the extension reports Progressing True because of Retrying, saying
      """
      error upgrading from currently installed version "1.0.0": no bundles found for package "${ID}" matching version "1.2.0"
      """
    And version "1.0.0" is still installed

  Scenario: An administrator who takes the responsibility updates to any version
    Given the catalog "main" offers
      | version | replaces | contains              |
      | 1.0.0   |          | Deployment; ConfigMap |
      | 1.0.1   | 1.0.0    | Deployment; ConfigMap |
      | 1.2.0   | 1.0.1    | Deployment; ConfigMap |
    And the extension is created with
      """
      source: {catalog: {version: 1.0.0}}
      """
    And version "1.0.0" is installed
    When the extension is changed to
      """
      source: {catalog: {version: 1.2.0, upgradeConstraintPolicy: SelfCertified}}
      """
    Then version "1.2.0" is installed
    And the extension is rolled out
    And the extension is available

  Scenario: A catalog's next image brings its new version by itself
    Given the catalog "main" offers
      | version | contains              |
      | 1.0.0   | Deployment; ConfigMap |
    And the extension is created
    And version "1.0.0" is installed
    When the image of the catalog "main" is replaced by one that offers
      | version | replaces | contains              |
      | 1.0.0   |          | Deployment; ConfigMap |
      | 1.3.0   | 1.0.0    | Deployment; ConfigMap |
    Then version "1.3.0" is installed
    And the extension is rolled out

  Scenario: A tag that moves brings the new version by itself
    Given the catalog "main", polled by its tag every minute, offers
      | version | contains              |
      | 1.0.0   | Deployment; ConfigMap |
    And the extension is created
    And version "1.0.0" is installed
    When the tag of the catalog "main" is moved to an image that offers
      | version | replaces | contains              |
      | 1.0.0   |          | Deployment; ConfigMap |
      | 1.3.0   | 1.0.0    | Deployment; ConfigMap |
    Then version "1.3.0" is installed
    And the extension is rolled out

  @BoxcutterRuntime
  Scenario: A version with the very same content is a revision of its own
    Given the catalog "main" offers
      | version | replaces | contains              |
      | 1.0.0   |          | Deployment; ConfigMap |
      | 1.0.1   | 1.0.0    | Deployment; ConfigMap |
    And the extension is created with
      """
      source: {catalog: {version: 1.0.0}}
      """
    And version "1.0.0" is installed
    When the extension is changed to
      """
      source: {catalog: {version: 1.0.1}}
      """
    Then version "1.0.1" is installed
    And the ClusterObjectSet "${ID}-2" reports Succeeded True because of Succeeded
    And the ClusterObjectSet "${ID}-1" reports Progressing False because of Archived

  @BoxcutterRuntime @DeploymentConfig
  Scenario: A second extension of the same package collides and does no harm
    Given the catalog "main" offers
      | version | replaces | contains                   |
      | 1.0.0   |          | CRD; Deployment; ConfigMap |
      | 1.0.1   | 1.0.0    | CRD; Deployment; ConfigMap |
    And the extension is created with
      """
      source: {catalog: {version: 1.0.0}}
      """
    And version "1.0.0" is installed
    When the extension is changed to
      """
      source: {catalog: {version: 1.0.1}}
      """
    Then version "1.0.1" is installed
    When a further extension "${ID}-again" is created with
      """
      source: {catalog: {version: 1.0.1}}
      """
    Then the ClusterExtension "${ID}-again" reports Progressing True because of Retrying, saying
      """
      revision object collisions
      Conflicting Owner
      """
    When the ClusterExtension "${ID}-again" is changed to
      """
      spec:
        config:
          configType: Inline
          inline: {deploymentConfig: {env: [{name: A, value: b}]}}
      """
    Then the ClusterObjectSet "${ID}-again-2" reports Progressing True because of Retrying, saying
      """
      revision object collisions
      """
    And the ClusterExtension "${ID}-again" reports Progressing True because of Retrying, saying
      """
      revision object collisions
      """
    And version "1.0.1" is still installed
    And the extension is rolled out
    And the extension is available
    And the Deployment "${ID}-operator" belongs to the extension

  @BoxcutterRuntime
  Scenario: What the next version no longer has is removed
    Given the catalog "main" offers
      | version | replaces | contains                               |
      | 1.0.0   |          | Deployment; ConfigMap; ConfigMap(old)  |
      | 1.0.1   | 1.0.0    | Deployment; ConfigMap; ConfigMap(new)  |
    And the extension is created with
      """
      source: {catalog: {version: 1.0.0}}
      """
    And version "1.0.0" is installed
    And the ConfigMap "${ID}-settings" is remembered
    When the extension is changed to
      """
      source: {catalog: {version: 1.0.1}}
      """
    Then version "1.0.1" is installed
    And the ClusterObjectSet "${ID}-2" reports Progressing True because of Succeeded
    And the ClusterObjectSet "${ID}-1" has
      """
      spec: {lifecycleState: Archived}
      """
    And the ConfigMap "${ID}-old" goes away
    And the ConfigMap "${ID}-new" belongs to the extension
    And the ConfigMap "${ID}-settings" is the same as before

  @BoxcutterRuntime
  Scenario: While a roll-out cannot finish, both revisions are listed
    Given the catalog "main" offers
      | version | replaces | contains                           |
      | 1.0.0   |          | Deployment; ConfigMap              |
      | 1.0.1   | 1.0.0    | Deployment(never ready); ConfigMap |
    And the extension is created with
      """
      source: {catalog: {version: 1.0.0}}
      """
    And version "1.0.0" is installed
    When the extension is changed to
      """
      source: {catalog: {version: 1.0.1}}
      """
    Then the ClusterExtension "${ID}" has
      """
      status:
        activeRevisions:
        - {name: "${ID}-1"}
        - {name: "${ID}-2"}
      """
    And the extension reports Progressing True because of RollingOut
    And version "1.0.0" is still installed
