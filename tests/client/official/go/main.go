// The official Go client, with commands line by line: see tests/client/official/driver.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	plog "github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
)

type request struct {
	Do       string  `json:"do"`
	URL      string  `json:"url"`
	Trust    string  `json:"trust"`
	Token    *string `json:"token"`
	Listener string  `json:"listener"`
	Topic    string  `json:"topic"`
	Payload  string  `json:"payload"`
	Count    int     `json:"count"`
	WithinS  float64 `json:"within_s"`
	Keep     bool    `json:"keep"`
	Method   string  `json:"method"`
	Body     string  `json:"body"`
}

func (r request) within(otherwise time.Duration) time.Duration {
	if r.WithinS == 0 {
		return otherwise
	}
	return time.Duration(r.WithinS * float64(time.Second))
}

type driver struct {
	client    pulsar.Client
	producers map[string]pulsar.Producer
	consumers map[string]pulsar.Consumer
}

func (d *driver) connect(r request) (any, error) {
	quiet := logrus.New()
	quiet.SetLevel(logrus.PanicLevel)
	options := pulsar.ClientOptions{
		URL:                   r.URL,
		TLSTrustCertsFilePath: r.Trust,
		TLSValidateHostname:   r.Trust != "",
		ListenerName:          r.Listener,
		OperationTimeout:      r.within(30 * time.Second),
		Logger:                plog.NewLoggerWithLogrus(quiet),
	}
	if r.Token != nil {
		options.Authentication = pulsar.NewAuthenticationToken(*r.Token)
	}
	made, err := pulsar.NewClient(options)
	d.client = made
	d.producers = map[string]pulsar.Producer{}
	d.consumers = map[string]pulsar.Consumer{}
	return nil, err
}

func (d *driver) produce(r request) (any, error) {
	producer := d.producers[r.Topic]
	if producer == nil {
		made, err := d.client.CreateProducer(pulsar.ProducerOptions{
			Topic: r.Topic, DisableBatching: true, SendTimeout: r.within(30 * time.Second),
		})
		if err != nil {
			return nil, err
		}
		producer = made
		d.producers[r.Topic] = made
	}
	results := make(chan error, r.Count)
	for n := 0; n < r.Count; n++ {
		payload := fmt.Sprintf("%s-%d", r.Payload, n)
		producer.SendAsync(context.Background(), &pulsar.ProducerMessage{Payload: []byte(payload)},
			func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) { results <- err })
	}
	for n := 0; n < r.Count; n++ {
		if err := <-results; err != nil {
			return nil, err
		}
	}
	return r.Count, nil
}

func (d *driver) subscribe(r request) (any, error) {
	made, err := d.client.Subscribe(pulsar.ConsumerOptions{
		Topic: r.Topic, SubscriptionName: "s", SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
	})
	d.consumers[r.Topic] = made
	return nil, err
}

func (d *driver) consume(r request) (any, error) {
	found := []string{}
	limit, cancel := context.WithTimeout(context.Background(), r.within(30*time.Second))
	defer cancel()
	for len(found) < r.Count {
		message, err := d.consumers[r.Topic].Receive(limit)
		if err != nil {
			return nil, err
		}
		found = append(found, string(message.Payload()))
		if r.Keep {
			continue
		}
		if err := d.consumers[r.Topic].Ack(message); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (d *driver) unsubscribe(r request) (any, error) {
	return nil, d.consumers[r.Topic].Unsubscribe()
}

func (d *driver) rewind(r request) (any, error) {
	return nil, d.consumers[r.Topic].SeekByTime(time.UnixMilli(1))
}

func (d *driver) last(r request) (any, error) {
	ids, err := d.consumers[r.Topic].GetLastMessageIDs()
	if err == nil && len(ids) != 1 {
		err = errors.New("a topic without partitions has one last message")
	}
	return nil, err
}

func (d *driver) partitions(r request) (any, error) {
	found, err := d.client.TopicPartitions(r.Topic)
	return len(found), err
}

func (d *driver) http(r request) (any, error) {
	asked, err := http.NewRequest(r.Method, r.URL, strings.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	asked.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(asked)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return map[string]any{"status": answer.StatusCode, "text": string(text)}, err
}

func (d *driver) close(request) (any, error) {
	if d.client != nil {
		d.client.Close()
	}
	return nil, nil
}

func main() {
	d := &driver{}
	verbs := map[string]func(request) (any, error){
		"connect": d.connect, "produce": d.produce, "subscribe": d.subscribe,
		"consume": d.consume, "unsubscribe": d.unsubscribe, "rewind": d.rewind, "last": d.last,
		"partitions": d.partitions, "http": d.http, "close": d.close,
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		value, err := verbs[asked.Do](asked)
		if err != nil {
			_ = answers.Encode(map[string]any{"refused": err.Error()})
			continue
		}
		_ = answers.Encode(map[string]any{"value": value})
	}
}
