-- A pipeline: flights that left more than five hours late, each with its airline, into the topic late_by_airline.
CREATE TABLE airlines (carrier STRING, name STRING) WITH (mode = static);

CREATE PIPELINE late_by_airline WITH (key = carrier) AS
  SELECT carrier, name AS airline, flight, origin, dest, dep_delay
  FROM flights JOIN airlines USING (carrier)
  WHERE dep_delay > 300;
