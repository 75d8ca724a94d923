"""The same street lights in AsyncAPI 2.6 and 3.0, on Kafka and MQTT."""

OLD = """
asyncapi: 2.6.0
info:
  title: Streetlights API
  version: 1.0.0
  description: City lights.
  license: {name: Apache 2.0}
defaultContentType: application/json
servers:
  scram:
    url: "test.example.org:18092,b.example.org:18092"
    protocol: kafka-secure
    security: [{saslScram: []}]
channels:
  "lights.1.{streetlight-id}.measured":
    parameters:
      streetlight-id: {$ref: "#/components/parameters/streetlightId"}
    publish:
      operationId: receiveLight
      traits: [{$ref: "#/components/operationTraits/kafka"}]
      message: {$ref: "#/components/messages/lightMeasured"}
  "lights.1.{streetlight-id}.commands":
    bindings: {kafka: {topic: commands, partitions: 3}}
    subscribe:
      message:
        oneOf:
          - $ref: "#/components/messages/turnOn"
          - messageId: dim
            payload: {type: object, properties: {percentage: {type: integer}}}
components:
  messages:
    lightMeasured:
      name: lightMeasured
      title: Light measured
      summary: How bright it is.
      traits: [{$ref: "#/components/messageTraits/common"}]
      bindings: {kafka: {key: {type: string, enum: [lamp]}}}
      payload: {$ref: "#/components/schemas/lightMeasuredPayload"}
    turnOn:
      schemaFormat: application/vnd.apache.avro;version=1.9.0
      payload: {type: record, name: TurnOn, fields: [{name: by, type: string}]}
  schemas:
    lightMeasuredPayload:
      type: object
      properties:
        lumens: {type: integer, minimum: 0}
        sentAt: {$ref: "#/components/schemas/sentAt"}
        near: {$ref: "#/components/schemas/node"}
    sentAt: {type: string, format: date-time}
    node: {type: object, properties: {next: {$ref: "#/components/schemas/node"}}}
    unused: {type: string}
  parameters:
    streetlightId: {description: The lamp., schema: {type: string}}
  securitySchemes:
    saslScram: {type: scramSha256}
  messageTraits:
    common:
      headers:
        type: object
        required: [my-app-header]
        properties: {my-app-header: {type: integer, minimum: 0, maximum: 100}}
  operationTraits:
    kafka:
      bindings: {kafka: {groupId: {type: string, enum: [lights]}, clientId: {type: string}}}
"""

NEW = """
asyncapi: 3.0.0
info: {title: Streetlights MQTT, version: 1.0.0, externalDocs: {url: "https://example.org/docs"}}
defaultContentType: application/json
servers:
  production:
    host: "test.example.org:{port}"
    protocol: secure-mqtt
    protocolVersion: "5"
    variables: {port: {default: "8883"}}
    security: [{$ref: "#/components/securitySchemes/apiKey"}]
channels:
  lightTurnedOn:
    address: "lights/{id}/on"
    messages: {on: {$ref: "#/components/messages/turnedOn"}}
    parameters: {id: {}}
  both:
    address: lights/status
    servers: [{$ref: "#/servers/production"}]
    messages:
      status:
        headers: {type: object, properties: {trace: {type: string, format: uuid}}}
        payload: {schemaFormat: "application/vnd.google.protobuf;version=3", schema: 'syntax = "proto3"; message S {}'}
operations:
  turnOn: {action: send, channel: {$ref: "#/channels/lightTurnedOn"}, bindings: {mqtt: {qos: 1, retain: true}}}
  statusIn: {action: receive, channel: {$ref: "#/channels/both"}}
  statusOut: {action: send, channel: {$ref: "#/channels/both"}}
components:
  securitySchemes: {apiKey: {type: apiKey, in: user}}
  messages:
    turnedOn:
      traits:
        - contentType: text/plain
          headers:
            type: object
            required: [specversion, id, source, type]
            properties:
              specversion: {type: string, const: "1.0"}
              id: {type: string}
              source: {type: string, format: uri-reference}
              type: {type: string, const: light.on}
              time: {type: string, format: date-time}
      contentType: application/json
      payload: {type: object, properties: {by: {type: string}}}
    whole:
      contentType: application/cloudevents+json
      payload:
        allOf:
          - type: object
            required: [type, subject]
            properties: {type: {const: light.off}, subject: {type: string}, datacontenttype: {const: text/json}}
          - {properties: {data: {type: object}}}
"""
