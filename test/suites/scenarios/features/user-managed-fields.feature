@BoxcutterRuntime
Feature: What users add to installed objects

  Background:
    Given the catalog "main" offers
      | version | contains                   |
      | 1.0.0   | CRD; Deployment; ConfigMap |
    And the extension is created
    And version "1.0.0" is installed

  Scenario: Labels and annotations of users stay beside those of the bundle
    When the Deployment "${ID}-operator" is changed to
      """
      metadata:
        labels: {team: lighthouse}
        annotations: {example.com/note: keep me}
      """
    And the extension is worked on again
    Then the Deployment "${ID}-operator" has
      """
      metadata:
        labels: {team: lighthouse, olm.operatorframework.io/owner-name: "${ID}"}
        annotations: {example.com/note: keep me, olm.operatorframework.io/package-name: "${ID}"}
      """
    And the extension is rolled out

  Scenario: Pods that a user restarted are not restarted back
    When the Deployment "${ID}-operator" is changed to
      """
      spec: {template: {metadata: {annotations: {kubectl.kubernetes.io/restartedAt: "2026-01-01T00:00:00Z"}}}}
      """
    Then there are 2 ReplicaSets of "${ID}-operator"
    When the extension is worked on again
    Then the Deployment "${ID}-operator" has
      """
      spec:
        template:
          metadata: {annotations: {kubectl.kubernetes.io/restartedAt: "2026-01-01T00:00:00Z"}}
      """
    And there are 2 ReplicaSets of "${ID}-operator"
    And the extension reports Available True because of ProbesSucceeded
