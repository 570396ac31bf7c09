@BoxcutterRuntime
Feature: Status of workloads

  Background:
    Given the catalog "main" offers
      | version | contains                            |
      | 1.0.0   | CRD; Deployment(gated); ConfigMap   |
    And the extension is created
    And the operator's Pods say that they are ready
    And the extension reports Available True because of ProbesSucceeded

  Scenario: A workload that is no longer ready makes extension and revision unavailable
    When the operator's Pods say that they are not ready
    Then the ClusterObjectSet "${ID}-1" reports Available False because of ProbeFailure, saying
      """
      Object Deployment.apps/v1 ${ID}/${ID}-operator: .status.condition["Available"] is False
      """
    And the extension reports Available False because of ProbeFailure
    And version "1.0.0" is still installed

  Scenario: A workload that is ready again makes extension and revision available again
    When the operator's Pods say that they are not ready
    Then the extension reports Available False because of ProbeFailure
    When the operator's Pods say that they are ready
    Then the ClusterObjectSet "${ID}-1" reports Available True because of ProbesSucceeded
    And the extension reports Available True because of ProbesSucceeded
