@BoxcutterRuntime
Feature: Revisions made by hand

  Background:
    Given the account "installer" may do everything in the namespace

  Scenario: A claim that is not bound holds later phases back
    When a revision is made by hand with
      """
      phases:
      - name: storage
        objects:
        - object:
            apiVersion: v1
            kind: PersistentVolumeClaim
            metadata: {name: claim, namespace: "${ID}"}
            spec:
              accessModes: [ReadWriteOnce]
              storageClassName: "${ID}"
              resources: {requests: {storage: 1Mi}}
      - name: configuration
        objects:
        - object:
            apiVersion: v1
            kind: ConfigMap
            metadata: {name: after, namespace: "${ID}"}
      progressionProbes:
      - selector: {type: GroupKind, groupKind: {group: "", kind: PersistentVolumeClaim}}
        assertions:
        - {type: FieldValue, fieldValue: {fieldPath: status.phase, value: Bound}}
      """
    Then the ClusterObjectSet "${ID}" reports Available False because of ProbeFailure, saying
      """
      Object PersistentVolumeClaim.v1 ${ID}/claim: value at key "status.phase" != "Bound"; expected: "Bound" got: "Pending"
      """
    And the ClusterObjectSet "${ID}" reports Progressing True because of RollingOut
    And the PersistentVolumeClaim "claim" exists
    And there is no ConfigMap "after"

  Scenario: A claim that is bound lets later phases come
    Given these objects
      """
      apiVersion: v1
      kind: PersistentVolume
      metadata: {name: "${ID}"}
      spec:
        accessModes: [ReadWriteOnce]
        capacity: {storage: 1Mi}
        storageClassName: "${ID}"
        persistentVolumeReclaimPolicy: Retain
        hostPath: {path: /nowhere}
        claimRef: {namespace: "${ID}", name: claim}
      """
    When a revision is made by hand with
      """
      phases:
      - name: storage
        objects:
        - object:
            apiVersion: v1
            kind: PersistentVolumeClaim
            metadata: {name: claim, namespace: "${ID}"}
            spec:
              accessModes: [ReadWriteOnce]
              storageClassName: "${ID}"
              volumeName: "${ID}"
              resources: {requests: {storage: 1Mi}}
      - name: configuration
        objects:
        - object:
            apiVersion: v1
            kind: ConfigMap
            metadata: {name: after, namespace: "${ID}"}
      progressionProbes:
      - selector: {type: GroupKind, groupKind: {group: "", kind: PersistentVolumeClaim}}
        assertions:
        - {type: FieldValue, fieldValue: {fieldPath: status.phase, value: Bound}}
      """
    Then the ClusterObjectSet "${ID}" reports Progressing True because of Succeeded
    And the ClusterObjectSet "${ID}" reports Available True because of ProbesSucceeded
    And the PersistentVolumeClaim "claim" has
      """
      status: {phase: Bound}
      """
    And the ConfigMap "after" exists

  Scenario: Probes of the user's that do not pass hold later phases back
    When a revision is made by hand with
      """
      phases:
      - name: first
        objects:
        - object:
            apiVersion: v1
            kind: ConfigMap
            metadata: {name: probed, namespace: "${ID}", labels: {probe: me}}
            data: {color: green, wanted: blue}
        - object:
            apiVersion: v1
            kind: ServiceAccount
            metadata: {name: unprobed, namespace: "${ID}"}
      - name: second
        objects:
        - object:
            apiVersion: v1
            kind: ConfigMap
            metadata: {name: after, namespace: "${ID}"}
      progressionProbes:
      - selector: {type: GroupKind, groupKind: {group: "", kind: ConfigMap}}
        assertions:
        - {type: FieldsEqual, fieldsEqual: {fieldA: data.color, fieldB: data.wanted}}
      - selector: {type: Label, label: {matchLabels: {probe: me}}}
        assertions:
        - {type: FieldValue, fieldValue: {fieldPath: data.color, value: red}}
      """
    Then the ClusterObjectSet "${ID}" reports Available False because of ProbeFailure, saying
      """
      Object ConfigMap.v1 ${ID}/probed: "data.color" != "data.wanted" expected:
      value at key "data.color" != "red"; expected: "red" got: "green"
      """
    And the ConfigMap "probed" exists
    And the ServiceAccount "unprobed" exists
    And there is no ConfigMap "after"

  Scenario: Probes of the user's that pass let later phases come
    When a revision is made by hand with
      """
      phases:
      - name: first
        objects:
        - object:
            apiVersion: apps/v1
            kind: Deployment
            metadata: {name: probed, namespace: "${ID}"}
            spec:
              replicas: 1
              selector: {matchLabels: {app: probed}}
              template:
                metadata: {labels: {app: probed}}
                spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: "${OPERATOR_IMAGE}"}]}
      - name: second
        objects:
        - object:
            apiVersion: v1
            kind: ConfigMap
            metadata: {name: after, namespace: "${ID}", labels: {probe: me}}
            data: {color: green}
      progressionProbes:
      - selector: {type: GroupKind, groupKind: {group: apps, kind: Deployment}}
        assertions:
        - {type: ConditionEqual, conditionEqual: {type: Available, status: "True"}}
        - {type: FieldsEqual, fieldsEqual: {fieldA: status.updatedReplicas, fieldB: status.replicas}}
      - selector: {type: Label, label: {matchLabels: {probe: me}}}
        assertions:
        - {type: FieldValue, fieldValue: {fieldPath: data.color, value: green}}
      """
    Then the ClusterObjectSet "${ID}" reports Progressing True because of Succeeded
    And the ClusterObjectSet "${ID}" reports Available True because of ProbesSucceeded
    And the ClusterObjectSet "${ID}" reports Succeeded True because of Succeeded
    And the ConfigMap "after" exists

  Scenario: Objects are taken from Secrets, compressed or not
    Given the immutable Secret "plain" holds the object
      """
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: from-plain, namespace: "${ID}"}
      data: {color: green}
      """
    And the immutable Secret "packed" holds, compressed, the object
      """
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: from-packed, namespace: "${ID}"}
      data: {color: blue}
      """
    When a revision is made by hand with
      """
      phases:
      - name: all
        objects:
        - ref: {name: plain, namespace: "${ID}", key: object}
        - ref: {name: packed, namespace: "${ID}", key: object}
      """
    Then the ClusterObjectSet "${ID}" reports Progressing True because of Succeeded
    And the ConfigMap "from-plain" has
      """
      data: {color: green}
      """
    And the ConfigMap "from-packed" has
      """
      data: {color: blue}
      """

  Scenario: A Secret that may change blocks its revision
    Given the mutable Secret "loose" holds the object
      """
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: from-loose, namespace: "${ID}"}
      """
    When a revision is made by hand with
      """
      phases:
      - name: all
        objects:
        - ref: {name: loose, namespace: "${ID}", key: object}
      """
    Then the ClusterObjectSet "${ID}" reports Progressing False because of Blocked, saying
      """
      the following secrets are not immutable (referenced secrets must have immutable set to true): ${ID}/loose
      """
    And there is no ConfigMap "from-loose"
    When the Secret "loose" is changed to
      """
      immutable: true
      """
    Then the ClusterObjectSet "${ID}" reports Progressing True because of Succeeded

  Scenario: A Secret made anew with other content blocks its revision until it is as it was
    Given the immutable Secret "plain" holds the object
      """
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: from-plain, namespace: "${ID}"}
      data: {color: green}
      """
    When a revision is made by hand with
      """
      phases:
      - name: all
        objects:
        - ref: {name: plain, namespace: "${ID}", key: object}
      """
    Then the ClusterObjectSet "${ID}" reports Progressing True because of Succeeded
    When the Secret "plain" is removed
    And the immutable Secret "plain" holds the object
      """
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: from-plain, namespace: "${ID}"}
      data: {color: red}
      """
    And the ClusterObjectSet "${ID}" is looked at again
    Then the ClusterObjectSet "${ID}" reports Progressing False because of Blocked, saying
      """
      resolved content of 1 phase(s) has changed: phase "all" (expected digest sha256:
      a referenced object source may have been deleted and recreated with different content
      """
    And the ConfigMap "from-plain" has
      """
      data: {color: green}
      """
    When the Secret "plain" is removed
    And the immutable Secret "plain" holds the object
      """
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: from-plain, namespace: "${ID}"}
      data: {color: green}
      """
    And the ClusterObjectSet "${ID}" is looked at again
    Then the ClusterObjectSet "${ID}" reports Progressing True because of Succeeded

  Scenario: A revision whose time is over can be archived, and cleans up
    Given progress deadlines may be as short as a minute
    When a revision is made by hand with
      """
      progressDeadlineMinutes: 1
      phases:
      - name: all
        objects:
        - object:
            apiVersion: v1
            kind: ConfigMap
            metadata: {name: before, namespace: "${ID}"}
            data: {color: green}
      progressionProbes:
      - selector: {type: GroupKind, groupKind: {group: "", kind: ConfigMap}}
        assertions:
        - {type: FieldValue, fieldValue: {fieldPath: data.color, value: red}}
      """
    Then the ConfigMap "before" exists
    And the ClusterObjectSet "${ID}" reports Progressing False because of ProgressDeadlineExceeded, saying
      """
      Revision has not rolled out for 1 minute(s).
      """
    When the ClusterObjectSet "${ID}" is changed to
      """
      spec: {lifecycleState: Archived}
      """
    Then the ClusterObjectSet "${ID}" reports Progressing False because of Archived
    And the ClusterObjectSet "${ID}" reports Available Unknown because of Archived
    And there is no ConfigMap "before"

  Scenario: A revision whose time was over succeeds when its probes pass in the end
    Given progress deadlines may be as short as a minute
    When a revision is made by hand with
      """
      progressDeadlineMinutes: 1
      phases:
      - name: all
        objects:
        - object:
            apiVersion: apps/v1
            kind: Deployment
            metadata: {name: late, namespace: "${ID}"}
            spec:
              replicas: 1
              selector: {matchLabels: {app: "${ID}"}}
              template:
                metadata: {labels: {app: "${ID}"}, annotations: {olm-test/never-ready: "true"}}
                spec:
                  terminationGracePeriodSeconds: 1
                  readinessGates: [{conditionType: example.com/ready}]
                  containers: [{name: c, image: "${OPERATOR_IMAGE}"}]
      progressionProbes:
      - selector: {type: GroupKind, groupKind: {group: apps, kind: Deployment}}
        assertions:
        - {type: ConditionEqual, conditionEqual: {type: Available, status: "True"}}
      """
    Then the ClusterObjectSet "${ID}" reports Progressing False because of ProgressDeadlineExceeded, saying
      """
      Revision has not rolled out for 1 minute(s).
      """
    When the operator's Pods say that they are ready
    Then the ClusterObjectSet "${ID}" reports Progressing True because of Succeeded
    And the ClusterObjectSet "${ID}" reports Available True because of ProbesSucceeded
    And the ClusterObjectSet "${ID}" reports Succeeded True because of Succeeded
